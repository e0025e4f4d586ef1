package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile marks a directory as a federation's, and is locked while the federation runs. The kernel releases the lock
// when this program exits.
const lockFile = "federation.lock"

// ErrRunning is the error that a running federation uses a directory.
var ErrRunning = errors.New("another federation uses this directory")

// claimFolder claims the directory and removes the files of an earlier federation.
func (f *Federation) claimFolder() (err error) {
	if f.options.Dir == "" {
		f.temporary = true
		if f.options.Dir, err = os.MkdirTemp("", "breakwater-federation-"); err != nil {
			return fmt.Errorf("create a directory for the federation: %w", err)
		}
	}
	if f.options.Dir, err = filepath.Abs(f.options.Dir); err != nil {
		return fmt.Errorf("resolve the directory of the federation: %w", err)
	}
	if err := Claim(f.options.Dir); err != nil {
		return err
	}
	if f.lock, err = lockFolder(f.options.Dir); err != nil {
		return err
	}
	if err := Clean(f.options.Dir, true); err != nil {
		return errors.Join(err, f.lock.Close())
	}
	return nil
}

// Claim creates a directory for a federation. It returns an error for a directory with other files, because Start and
// Clean remove the content.
func Claim(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("create the directory of the federation: %w", err)
	}
	marker := filepath.Join(folder, lockFile)
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("read the directory of the federation: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("directory %s contains files that are not a federation's: choose an empty or a new one", folder)
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return fmt.Errorf("mark the directory of the federation: %w", err)
	}
	return nil
}

func lockFolder(folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the directory of the federation: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", folder, ErrRunning)
		}
		return nil, fmt.Errorf("lock the directory of the federation: %w", err)
	}
	return lock, nil
}

// cleanFolder removes all files except the logs, and the whole directory if it is temporary.
func (f *Federation) cleanFolder() error {
	clean := func() error { return Clean(f.options.Dir, false) }
	if f.temporary {
		clean = func() error { return os.RemoveAll(f.options.Dir) }
	}
	return errors.Join(clean(), f.lock.Close())
}

// Clean kills the components of a federation whose program was killed, and removes its keys, data and kubeconfigs,
// and optionally its logs. The federation must not be running.
func Clean(folder string, logs bool) error {
	state, err := ReadState(folder)
	if err == nil {
		for _, cluster := range state.Clusters {
			for _, component := range cluster.Components {
				if err := component.Process.kill(); err != nil {
					return fmt.Errorf("kill %s of cluster %s of an earlier federation: %w", component.Name,
						cluster.Name, err)
				}
			}
		}
	}
	paths := []string{filepath.Join(folder, "kubeconfig"), filepath.Join(folder, stateFile)}
	clusters, err := filepath.Glob(filepath.Join(folder, "clusters", "*"))
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		entries, err := os.ReadDir(cluster)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if entry.Name() != "logs" || logs {
				paths = append(paths, filepath.Join(cluster, entry.Name()))
			}
		}
	}
	if logs {
		paths = append(paths, filepath.Join(folder, "clusters"))
	}
	for _, path := range paths {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("clean the directory of the federation: %w", err)
		}
	}
	return nil
}
