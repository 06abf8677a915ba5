"""Work on whole partitions: repair of damaged ones, new indexes, another codec or format."""
