package testplane

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAwaitEndTimesOut(t *testing.T) {
	if err := awaitEnd(make(chan error), time.Millisecond); err == nil || !strings.Contains(err.Error(), "may list and watch all that it reads") {
		t.Errorf("awaitEnd() of a manager that still runs: error %v", err)
	}
	wrong := errors.New("wrong")
	for _, want := range []error{nil, wrong} {
		ended := make(chan error, 1)
		ended <- want
		if err := awaitEnd(ended, time.Minute); !errors.Is(err, want) {
			t.Errorf("awaitEnd() = %v, want %v", want, err)
		}
	}
}
