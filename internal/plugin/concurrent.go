package plugin

import "sync"

// ForEachConcurrently runs visit concurrently for all items and waits.
func ForEachConcurrently[T any](all []T, visit func(i int, one T)) {
	var running sync.WaitGroup
	for i, one := range all {
		running.Go(func() { visit(i, one) })
	}
	running.Wait()
}

// RunConcurrently runs all functions concurrently and waits.
func RunConcurrently(all ...func()) { ForEachConcurrently(all, func(_ int, run func()) { run() }) }
