package slot

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// Set is a set of slots. The zero value is empty. Sets are comparable by ==.
type Set [Count / 64]uint64

// All returns the set of all slots.
func All() Set { return Set{}.Complement() }

// Complement returns all slots except those of the set.
func (s Set) Complement() Set {
	for i := range s {
		s[i] = ^s[i]
	}
	return s
}

// With returns the set with one more slot.
func (s Set) With(n int) Set {
	s[n/64] |= 1 << (n % 64)
	return s
}

// Has reports whether a slot is in the set.
func (s Set) Has(n int) bool { return s[n/64]&(1<<(n%64)) != 0 }

// Or returns the union of two sets.
func (s Set) Or(o Set) Set {
	for i := range s {
		s[i] |= o[i]
	}
	return s
}

// And returns the intersection of two sets.
func (s Set) And(o Set) Set {
	for i := range s {
		s[i] &= o[i]
	}
	return s
}

// Minus returns the slots that are not in the other set.
func (s Set) Minus(o Set) Set { return s.And(o.Complement()) }

// Empty reports whether the set has no slots.
func (s Set) Empty() bool { return s == Set{} }

// Len returns the number of slots.
func (s Set) Len() int {
	n := 0
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// Each yields the slots in ascending order.
func (s Set) Each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := range Count {
			if s.Has(n) && !yield(n) {
				return
			}
		}
	}
}

// String formats the set as slot numbers, with ranges for consecutive ones: 0-12,17.
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

// Parse parses the format of String. It accepts ranges in any order, including overlapping ones.
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

// Recorded returns the slots of a record. A malformed record, which no shard writes, has none.
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
