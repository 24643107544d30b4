"""Files with transactions: a topic of URLs, each of which becomes the records of its file in one transaction."""
