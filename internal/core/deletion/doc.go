// Package deletion foresees what becomes of the floors of a core cluster if objects in it were deleted: which would be released, which
// the release brake would hold (rule 13), and which deletions the root guard would refuse. Packages brake, rootguard and desired decide, as
// they do when it happens.
//
// It is pure: the caller passes what it has read, and the time.
package deletion
