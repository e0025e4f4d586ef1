//go:build unix && !linux

package local

import (
	"errors"
	"math"
)

// CanFillDisks tells whether FillDisk works on this system: only Linux limits a process that runs.
const CanFillDisks = false

const unlimited uint64 = math.MaxUint64

func limitFileSize(int, uint64) error { return errors.ErrUnsupported }
