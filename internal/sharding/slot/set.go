package slot

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// Set is some slots. The zero value has none; two sets are equal if they have the same.
type Set [Count / 64]uint64

// All has every slot.
func All() Set { return Set{}.Without() }

// Without is all slots but those of the set.
func (s Set) Without() Set {
	for i := range s {
		s[i] = ^s[i]
	}
	return s
}

// With is the set and one slot more.
func (s Set) With(n int) Set {
	s[n/64] |= 1 << (n % 64)
	return s
}

// Has tells whether a slot is in the set.
func (s Set) Has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// Or is the slots of either set.
func (s Set) Or(o Set) Set {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// And is the slots of both sets.
func (s Set) And(o Set) Set {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// Minus is the slots that are not in the other set.
func (s Set) Minus(o Set) Set { return s.And(o.Without()) }

// Empty tells whether there is none.
func (s Set) Empty() bool { return s == Set{} }

// Len is how many there are.
func (s Set) Len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// Each is the slots in their order.
func (s Set) Each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := range Count {
			if s.Has(n) && !yield(n) {
				return
			}
		}
	}
}

// String writes the set as the numbers of its slots, those that follow on each other as a range: 0-12,17.
func (s Set) String() string {
	var b strings.Builder
	for n := 0; n < Count; n++ {
		if !s.Has(n) {
			continue
		}
		first := n
		for n+1 < Count && s.Has(n+1) {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if n > first {
			b.WriteString("-" + strconv.Itoa(n))
		}
	}
	return b.String()
}

// Parse reads what String has written. It takes ranges in any order, also ones that overlap.
func Parse(text string) (Set, error) {
	var s Set
	if text == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := number(from)
		if err != nil {
			return Set{}, err
		}
		last := first
		if isRange {
			if last, err = number(to); err != nil {
				return Set{}, err
			}
		}
		if last < first {
			return Set{}, fmt.Errorf("slots %q end before they begin", part)
		}
		for n := first; n <= last; n++ {
			s = s.With(n)
		}
	}
	return s, nil
}

// Recorded is what a record has of slots. One that cannot be read has none: nobody of us writes such.
func Recorded(text string) Set {
	s, _ := Parse(text)
	return s
}

func number(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n >= Count {
		return 0, fmt.Errorf("%q is not the number of a slot, which is from 0 to %d", text, Count-1)
	}
	return int(n), nil
}
