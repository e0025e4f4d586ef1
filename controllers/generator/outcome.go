package generator

// outcome is the result of one reconciliation.
type outcome string

const (
	// ignored: the source needs no protector and has no generated one.
	ignored outcome = "Ignored"
	// protected: the source has its protectors.
	protected outcome = "Protected"
	// retained: the protectors stay, without the policy that generated them.
	retained outcome = "PolicyGone"
	// released: the source was deleted or opted out; protectors and finalizers were removed.
	released outcome = "Released"
	// sourceVanished: the protectors stay, without their source.
	sourceVanished outcome = "SourceVanished"
	// decreaseHeld: protectors stay in force, because their release is pending.
	decreaseHeld outcome = "DecreaseHeld"
	// nameTaken: a protector that was not generated has the name.
	nameTaken outcome = "NameTaken"
	// refused: the source requests a protector that cannot be created.
	refused outcome = "Refused"
	// outdated: the API server has a newer state than the cache. Usually an event follows. The generator also looks again in case it does
	// not.
	outdated outcome = "Outdated"
)
