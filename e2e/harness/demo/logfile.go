package demo

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// openLog redirects the logs of the federation and of the client libraries to a file. On the terminal they would disrupt the
// output.
func (d *demo) openLog() (*os.File, error) {
	file, err := os.Create(filepath.Join(d.dir, "demo.log"))
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	d.log = logr.FromSlogHandler(slog.NewTextHandler(file, nil))
	klog.SetLogger(d.log)
	ctrllog.SetLogger(d.log)
	return file, nil
}
