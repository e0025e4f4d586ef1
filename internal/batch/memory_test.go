package batch

import (
	"context"
	"testing"
)

func TestIdleKeysTakeNoMemory(t *testing.T) {
	b := New(func(_ context.Context, _ int, inputs []int) ([]int, error) { return inputs, nil })
	ended, end := context.WithCancel(t.Context())
	end()
	for key := range 1000 {
		if _, err := b.Do(t.Context(), key, key); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Do(ended, key, key); err == nil {
			t.Fatal("a call with an ended context succeeded")
		}
	}
	b.Wait()
	if len(b.lines) != 0 {
		t.Errorf("%d keys are still known after their flights", len(b.lines))
	}
}
