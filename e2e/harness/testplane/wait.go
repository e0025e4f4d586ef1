package testplane

import (
	"testing"
	"time"
)

// patience bounds every wait for something that takes a moment.
const patience = time.Minute

// Eventually waits until look says "", and fails with its last word otherwise.
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
