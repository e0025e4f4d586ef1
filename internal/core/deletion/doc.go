// Package deletion predicts what happens to the floors of a core cluster if objects in it are deleted: which floors are released,
// which the release brake holds (rule 13), and which deletions the root guard denies. Packages brake, rootguard and desired decide,
// as they do for a real deletion.
//
// It is pure: the caller passes the objects that it has read, and the time.
package deletion
