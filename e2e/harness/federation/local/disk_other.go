//go:build unix && !linux

package local

import (
	"errors"
	"math"
)

// CanFillDisks reports whether FillDisk works on this system: only Linux can limit a running process.
const CanFillDisks = false

const unlimited uint64 = math.MaxUint64

func limitFileSize(int, uint64) error { return errors.ErrUnsupported }
