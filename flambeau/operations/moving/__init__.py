"""Operations that move elements: views, places, joining, sorting."""
