"""Programs along rows and at computed places, on the host and on devices."""
