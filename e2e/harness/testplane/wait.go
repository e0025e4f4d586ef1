package testplane

import (
	"testing"
	"time"
)

// waitTimeout is the timeout of every wait for something that takes a moment.
const waitTimeout = time.Minute

// Eventually waits until problem returns "". On a timeout it fails the test with the last problem.
func Eventually(t testing.TB, problem func() string) {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for message := problem(); message != ""; message = problem() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s: %s", waitTimeout, message)
		}
		<-time.After(20 * time.Millisecond)
	}
}
