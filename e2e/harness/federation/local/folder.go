package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile marks a folder as a federation's, and is held for as long as the federation runs. The kernel gives it
// up when we die.
const lockFile = "federation.lock"

// ErrRuns is the error that a folder belongs to a federation that runs.
var ErrRuns = errors.New("a federation runs in this folder already")

// takeFolder makes the folder ours and removes what an earlier federation left in it.
func (f *Federation) takeFolder() (err error) {
	if f.options.Dir == "" {
		f.temporary = true
		if f.options.Dir, err = os.MkdirTemp("", "breakwater-federation-"); err != nil {
			return fmt.Errorf("make a folder for the federation: %w", err)
		}
	}
	if f.options.Dir, err = filepath.Abs(f.options.Dir); err != nil {
		return fmt.Errorf("find the folder of the federation: %w", err)
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

// Claim makes a folder for a federation. It refuses a folder that holds something else, since Start and Clean
// remove what they find in theirs.
func Claim(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the folder of the federation: %w", err)
	}
	marker := filepath.Join(folder, lockFile)
	if _, err := os.Stat(marker); err == nil {
		return nil
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("look into the folder of the federation: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("the folder %s holds other things than a federation: choose an empty or a new one", folder)
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return fmt.Errorf("mark the folder of the federation: %w", err)
	}
	return nil
}

func lockFolder(folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the folder of the federation: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", folder, ErrRuns)
		}
		return nil, fmt.Errorf("lock the folder of the federation: %w", err)
	}
	return lock, nil
}

// leaveFolder removes all but the logs, and these too when the folder was a temporary one.
func (f *Federation) leaveFolder() error {
	clean := func() error { return Clean(f.options.Dir, false) }
	if f.temporary {
		clean = func() error { return os.RemoveAll(f.options.Dir) }
	}
	return errors.Join(clean(), f.lock.Close())
}

// Clean ends what is left of a federation whose program was killed, and removes its keys, data and kubeconfigs;
// its logs too if asked to. The federation in the folder must not run any more.
func Clean(folder string, logs bool) error {
	state, err := ReadState(folder)
	if err == nil {
		for _, cluster := range state.Clusters {
			for _, component := range cluster.Components {
				if err := component.Process.kill(); err != nil {
					return fmt.Errorf("end %s of cluster %s, left by an earlier federation: %w", component.Name,
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
			return fmt.Errorf("clean the folder of the federation: %w", err)
		}
	}
	return nil
}
