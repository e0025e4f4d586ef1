package selectors

// word is the text of a value. A short text is stored within its term, so that a comparison does not read other memory.
type word struct {
	size  uint8
	short [23]byte
	// long is the text if it does not fit into short.
	long string
}

func newWord(text string) word {
	w := word{size: uint8(len(text))} // label values have at most 63 bytes
	if copy(w.short[:], text) < len(text) {
		w.long = text
	}
	return w
}

func (w *word) is(text string) bool {
	if len(text) > len(w.short) {
		return w.long == text
	}
	return int(w.size) == len(text) && string(w.short[:len(text)]) == text
}
