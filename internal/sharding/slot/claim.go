package slot

// Holding is the recorded slots of an incarnation of a shard.
type Holding struct {
	Shard, Holder string
	Slots         Set
}

// HeldBy returns the slots of an incarnation of a shard.
func HeldBy(held []Holding, shard, holder string) Set {
	for _, h := range held {
		if h.Shard == shard && h.Holder == holder {
			return h.Slots
		}
	}
	return Set{}
}

// Claimable returns the wanted slots that a shard may take: those that belong to no shard, to itself, or to shards that have
// certainly stopped working. For all others it must wait until they are given up.
func Claimable(shard string, wanted Set, held []Holding, isDead func(shard string) bool) Set {
	for _, h := range held {
		if h.Shard != shard && !wanted.And(h.Slots).Empty() && !isDead(h.Shard) {
			wanted = wanted.Minus(h.Slots)
		}
	}
	return wanted
}

// Unowned returns the slots that have no recorded owner.
func Unowned(held []Holding) Set {
	var owned Set
	for _, h := range held {
		owned = owned.Or(h.Slots)
	}
	return owned.Complement()
}
