"""Building Horovod from its source archive: downloading, editing, compiling, packing, installing."""
