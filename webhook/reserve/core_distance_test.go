package reserve

import (
	"testing"
	"time"
)

func TestCoreDistance(t *testing.T) {
	began := time.Now()
	d := &coreDistance{}
	if d.isFar() {
		t.Error("isFar() = true before the first write, want false")
	}
	for _, write := range []struct {
		after, took time.Duration
		want        bool
	}{
		{0, 55 * time.Millisecond, true},
		{time.Second, 300 * time.Millisecond, true},
		{2 * time.Second, 5 * time.Millisecond, false},
		{3 * time.Second, 80 * time.Millisecond, false}, // a slow write of a near core
		{8 * time.Second, 80 * time.Millisecond, true},  // the fast one is too old
		{9 * time.Second, 6 * time.Millisecond, false},
	} {
		d.record(write.took, began.Add(write.after))
		if got := d.isFar(); got != write.want {
			t.Errorf("isFar() after a write of %s at %s = %v, want %v", write.took, write.after, got, write.want)
		}
	}
}
