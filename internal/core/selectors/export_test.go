package selectors

// NewWithHash returns an index with the given hash function, for tests.
func NewWithHash[ID comparable](hash func(string) uint64) *Index[ID] { return newIndex[ID](hash) }
