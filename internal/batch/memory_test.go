package batch

import (
	"context"
	"testing"
)

func TestIdleKeysUseNoMemory(t *testing.T) {
	b := New(func(_ context.Context, _ int, inputs []int) ([]int, error) { return inputs, nil })
	ended, end := context.WithCancel(t.Context())
	end()
	for key := range 1000 {
		if _, err := b.Do(t.Context(), key, key); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Do(ended, key, key); err == nil {
			t.Fatal("Do() with an ended context succeeded, want an error")
		}
	}
	b.Wait()
	if len(b.queues) != 0 {
		t.Errorf("%d queues remain after all batches completed, want 0", len(b.queues))
	}
}
