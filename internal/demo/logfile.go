package demo

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
)

// openLog sends what the federation logs to a file: on the terminal it would tear the picture apart.
func (d *demo) openLog() (*os.File, error) {
	file, err := os.Create(filepath.Join(d.dir, "demo.log"))
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	d.log = logr.FromSlogHandler(slog.NewTextHandler(file, nil))
	return file, nil
}
