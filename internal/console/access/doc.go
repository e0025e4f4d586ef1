// Package access authenticates and authorizes the users of the console. It asks the API servers of the cores and caches the answers for a
// short time. It keeps browser sessions in memory only.
package access
