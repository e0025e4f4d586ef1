package testplane

import (
	"testing"
	"time"
)

// patience is the timeout of every wait for something that takes a moment.
const patience = time.Minute

// Eventually waits until look returns "". On a timeout it fails the test with the last result of look.
func Eventually(t testing.TB, look func() string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for word := look(); word != ""; word = look() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s: %s", patience, word)
		}
		<-time.After(20 * time.Millisecond)
	}
}
