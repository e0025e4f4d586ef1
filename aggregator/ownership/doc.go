// Package ownership determines which protectors of a cell a leadership counts and writes: all of them, or those of the slots
// that a shard of a ring has claimed. The claims of all shards are recorded in the status of the Cell.
package ownership
