package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// fetchModule downloads the programs of a module. It connects to no site unless all its files have a pinned sum.
func fetchModule(ctx context.Context, c *client, tools, module, platform, folder string) error {
	sums, err := readSums(tools)
	if err != nil {
		return err
	}
	wanted := slices.DeleteFunc(releases(), func(r release) bool { return r.module != module })
	if len(wanted) == 0 {
		return fmt.Errorf("module %s has no released programs", module)
	}
	urls := make([]string, len(wanted))
	for i, r := range wanted {
		version, err := r.version(tools)
		if err != nil {
			return err
		}
		urls[i] = expand(r.url, version, platform)
		if sums[urls[i]] == "" {
			return fmt.Errorf("%s/sums pins no sum of %s", tools, urls[i])
		}
	}
	for i, r := range wanted {
		if err := c.fetch(ctx, r, urls[i], sums[urls[i]], folder); err != nil {
			return err
		}
	}
	return nil
}

// fetch downloads a file, checks its sum, and puts its programs into the folder.
func (c *client) fetch(ctx context.Context, r release, url, want, folder string) error {
	part, err := os.CreateTemp(folder, ".download-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }()
	defer part.Close()
	got, err := c.download(ctx, url, part)
	switch {
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("%s has the SHA-256 sum %s, want %s: discarded", c.address(url), got, want)
	}
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if len(r.programs) == 1 {
		return install(part, filepath.Join(folder, r.programs[0]))
	}
	return unpack(part, r.programs, folder)
}

// unpack takes programs from a compressed tar archive.
func unpack(archive io.Reader, programs []string, folder string) error {
	plain, err := gzip.NewReader(archive)
	if err != nil {
		return err
	}
	left := slices.Clone(programs)
	for files := tar.NewReader(plain); len(left) > 0; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("the archive does not have %q", left)
		} else if err != nil {
			return err
		}
		if i := slices.Index(left, path.Base(header.Name)); i >= 0 && header.Typeflag == tar.TypeReg {
			if err := install(files, filepath.Join(folder, left[i])); err != nil {
				return err
			}
			left = slices.Delete(left, i, i+1)
		}
	}
	return nil
}

func install(content io.Reader, path string) error {
	program, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	_, err = io.Copy(program, content) //nolint:gosec // its sum is pinned
	return errors.Join(err, program.Close())
}
