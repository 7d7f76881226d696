"""The device on the other side of the HBM bus: model, timing checker, images of its contents."""
