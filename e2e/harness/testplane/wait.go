package testplane

import (
	"testing"
	"time"
)

// waitTimeout is the timeout of every wait for something that takes a moment.
const waitTimeout = time.Minute

// Eventually waits until look returns "". On a timeout it fails the test with the last result of look.
func Eventually(t testing.TB, check func() string) {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for word := check(); word != ""; word = check() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s: %s", waitTimeout, word)
		}
		<-time.After(20 * time.Millisecond)
	}
}
