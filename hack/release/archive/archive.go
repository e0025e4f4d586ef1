// Package archive packs files reproducibly: the same files and time give the same bytes.
package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// File is an entry of an archive. An entry without content is a directory.
type File struct {
	Name    string
	Mode    fs.FileMode
	Content []byte
}

// Tar writes files that root owns.
func Tar(out io.Writer, at time.Time, files ...File) error {
	w := tar.NewWriter(out)
	for _, f := range files {
		header := &tar.Header{
			Name: f.Name, Typeflag: tar.TypeReg, Size: int64(len(f.Content)), Mode: int64(f.Mode.Perm()), ModTime: at, Format: tar.FormatPAX,
		}
		if f.Content == nil {
			header.Typeflag = tar.TypeDir
		}
		if f.Mode&fs.ModeSticky != 0 {
			header.Mode |= 0o1000
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.Content); err != nil {
			return err
		}
	}
	return w.Close()
}

// TarGzip returns a compressed tar archive.
func TarGzip(at time.Time, files ...File) ([]byte, error) {
	var b bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(Tar(compressed, at, files...), compressed.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Zip returns a zip archive.
func Zip(at time.Time, files ...File) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: at}
		header.SetMode(f.Mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.Content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Folder returns the files of a folder and its folders, sorted by name.
func Folder(root string) (files []File, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		files = append(files, File{Name: filepath.ToSlash(name), Mode: 0o644, Content: content})
		return err
	})
	return files, err
}

// Read returns the files of a tar.gz or zip archive by its name, or else of a tar archive.
func Read(path string) ([]File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var files []File
	switch filepath.Ext(path) {
	case ".zip":
		files, err = readZip(raw)
	case ".gz", ".tgz":
		var decompressed *gzip.Reader
		if decompressed, err = gzip.NewReader(bytes.NewReader(raw)); err == nil {
			files, err = readTar(decompressed)
		}
	default:
		files, err = readTar(bytes.NewReader(raw))
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return files, nil
}

func readTar(from io.Reader) (files []File, err error) {
	for r := tar.NewReader(from); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: header.Name, Mode: header.FileInfo().Mode(), Content: content})
	}
}

func readZip(raw []byte) (files []File, err error) {
	r, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		return nil, err
	}
	for _, f := range r.File {
		from, err := f.Open()
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(from)
		if err := errors.Join(err, from.Close()); err != nil {
			return nil, err
		}
		files = append(files, File{Name: f.Name, Mode: f.Mode(), Content: content})
	}
	return files, nil
}
