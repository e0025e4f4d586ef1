package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

const (
	// breakwaterFolder is the folder of Breakwater in that of a federation. It contains the logs of the components.
	breakwaterFolder = "breakwater"
	// breakwaterTimeout bounds the start of Breakwater, until the API servers of all workers call the webhooks.
	breakwaterTimeout = 2 * time.Minute
)

// breakwater is the Breakwater of a federation. The zero value is none.
type breakwater struct {
	installation *install.Installation
	dir          string // of the federation
}

// startBreakwater starts the components, unless the federation is bare. It returns when the API servers of all workers call the webhooks.
func startBreakwater(ctx context.Context, f *local.Federation, target federationTarget, log logr.Logger) (breakwater, error) {
	folder := filepath.Join(target.dir, breakwaterFolder)
	if err := os.RemoveAll(folder); err != nil || target.breakwater == "" {
		return breakwater{}, err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return breakwater{}, err
	}
	starting, cancel := context.WithTimeout(ctx, breakwaterTimeout)
	defer cancel()
	i, err := install.Start(starting, install.Options{
		Program: target.breakwater, Dir: folder, Cores: f.Cores(), Workers: f.Workers(), Shares: target.shares,
	})
	if err != nil {
		return breakwater{}, errors.Join(fmt.Errorf("start Breakwater: %w", err), cleanBreakwater(target.dir))
	}
	go func() {
		select {
		case death := <-i.Died():
			log.Error(death, "Component of Breakwater died")
		case <-ctx.Done():
		}
	}()
	return breakwater{installation: i, dir: target.dir}, i.EnableWebhooks(starting)
}

// stop ends all components, and removes everything except the logs.
func (b breakwater) stop() {
	if b.installation != nil {
		b.installation.Stop()
		_ = cleanBreakwater(b.dir) // down reports what cannot be removed
	}
}

// cleanBreakwater removes the keys of the webhooks.
func cleanBreakwater(dir string) error {
	return os.RemoveAll(filepath.Join(dir, breakwaterFolder, "webhook"))
}

// breakwaterStatus reports whether a federation runs with Breakwater, and where its logs are.
func breakwaterStatus(dir string) string {
	folder := filepath.Join(dir, breakwaterFolder)
	if _, err := os.Stat(folder); err != nil {
		return "Breakwater does not run in it (--bare)"
	}
	return "the logs of Breakwater are in " + folder
}
