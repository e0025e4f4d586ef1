package main

import (
	"archive/tar"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// writeArchive writes the images of all platforms into one OCI archive, under one name, and returns its digest.
func writeArchive(out, name string, images []platformImage, at time.Time) (v1.Hash, error) {
	index := v1.ImageIndex(empty.Index)
	for _, image := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image.Image, Descriptor: v1.Descriptor{Platform: image.platform}})
	}
	folder, err := os.MkdirTemp("", "breakwater-image-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(folder)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          name, // the name that containerd, and so kind, uses
		"org.opencontainers.image.ref.name": name,
	})); err != nil {
		return v1.Hash{}, err
	}
	if err := pack(out, folder, at); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// pack writes a folder's files into a tar archive, sorted by name.
func pack(out, folder string, at time.Time) (err error) {
	archive, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() {
		if closed := archive.Close(); err == nil {
			err = closed
		}
	}()
	w := tar.NewWriter(archive)
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.ToSlash(name), Typeflag: tar.TypeReg, Size: info.Size(), Mode: 0o644, ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		content, err := os.Open(path)
		if err != nil {
			return err
		}
		defer content.Close()
		_, err = io.Copy(w, content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
