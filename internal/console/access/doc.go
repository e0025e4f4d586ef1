// Package access finds out who asks the console, and what they may see: the core's apiserver says both, and what it said counts for a
// short while. It keeps sessions of browsers, in memory alone.
package access
