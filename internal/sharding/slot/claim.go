package slot

// Holding is the slots that a record says an incarnation of a shard has.
type Holding struct {
	Shard, Holder string
	Slots         Set
}

// HeldBy are those that an incarnation of a shard has.
func HeldBy(held []Holding, shard, holder string) Set {
	for _, h := range held {
		if h.Shard == shard && h.Holder == holder {
			return h.Slots
		}
	}
	return Set{}
}

// Claimable are the slots, of those that a shard is to have, that it may take: those that nobody has but itself, or shards that are
// certain not to work any more. Of all others it must wait until they are given up.
func Claimable(shard string, wanted Set, held []Holding, isDead func(shard string) bool) Set {
	for _, h := range held {
		if h.Shard != shard && !wanted.And(h.Slots).Empty() && !isDead(h.Shard) {
			wanted = wanted.Minus(h.Slots)
		}
	}
	return wanted
}

// Unowned are the slots that no record says anybody has.
func Unowned(held []Holding) Set {
	var owned Set
	for _, h := range held {
		owned = owned.Or(h.Slots)
	}
	return owned.Without()
}
