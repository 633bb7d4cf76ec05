"""What other modules need of views, in one place."""
from .geometry cimport Shape, copy_strided, cut_t, load, select_cut, slice_cut, unsqueeze_cut
from .strided cimport compact, cut, expanded, is_tracked, reshaped, view_of, viewed
