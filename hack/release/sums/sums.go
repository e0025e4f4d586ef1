// Package sums writes and verifies checksums in the form of sha256sum.
package sums

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// File is the name of a file of checksums. Its signature has the suffix .sig.
const File = "SHA256SUMS"

// Of returns the checksum of a file.
func Of(path string) (string, error) {
	raw, err := os.ReadFile(path)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

// Files returns the names of all files of a folder and its folders, relative and sorted.
func Files(folder string) (names []string, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	slices.Sort(names)
	return names, err
}

// Write writes the checksums of files of a folder into a file of that folder.
func Write(folder, file string, names []string) error {
	var text strings.Builder
	for _, name := range names {
		sum, err := Of(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(folder, file), []byte(text.String()), 0o644)
}

// Verify checks that a file of a folder has the right checksums of exactly the given files.
func Verify(folder, file string, names []string) error {
	raw, err := os.ReadFile(filepath.Join(folder, file))
	if err != nil {
		return err
	}
	var errs []error
	var listed []string
	for line := range strings.Lines(string(raw)) {
		want, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		listed = append(listed, name)
		if got, err := Of(filepath.Join(folder, filepath.FromSlash(name))); err != nil {
			errs = append(errs, err)
		} else if got != want {
			errs = append(errs, fmt.Errorf("%s: %s has the checksum %s, want %s", file, name, got, want))
		}
	}
	for _, name := range names {
		if !slices.Contains(listed, name) {
			errs = append(errs, fmt.Errorf("%s does not list %s", file, name))
		}
	}
	if len(listed) != len(names) {
		errs = append(errs, fmt.Errorf("%s lists %d files, want %d", file, len(listed), len(names)))
	}
	return errors.Join(errs...)
}
