// Package chaos runs storms on a real federation and validates them, while parts of the federation are killed, paused, restarted and cut
// off. It trusts only two sources: the etcds of the workers, whose history it reads revision by revision, and the clients, which record
// their requests and the answers with times. From Breakwater's own status it checks only that it has become true again.
package chaos
