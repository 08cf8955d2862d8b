"""The structured device allocator: claims and published devices in, an allocation or the reason why not out."""
