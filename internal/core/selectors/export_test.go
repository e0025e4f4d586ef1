package selectors

// NewWithHash returns an index with a hash of its own, for tests.
func NewWithHash[ID comparable](hash func(string) uint64) *Index[ID] { return newIndex[ID](hash) }
