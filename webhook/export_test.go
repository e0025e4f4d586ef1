package webhook

// OwnerOf lets tests choose replicas that own a key.
func OwnerOf(key string, replicas []string) string { return ownerOf(key, replicas) }
