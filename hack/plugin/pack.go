package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"time"
)

type file struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// packed is a finished archive.
type packed struct {
	platform
	name, sha256 string
}

func packedAs(p platform, version string, archive []byte) packed {
	sum := sha256.Sum256(archive)
	return packed{platform: p, name: p.archive(version), sha256: hex.EncodeToString(sum[:])}
}

// pack creates the archive for a platform. It is reproducible, because all files have the same time.
func pack(p platform, files []file) ([]byte, error) {
	if p.os == "windows" {
		return zipped(files)
	}
	return tarred(files)
}

// packedAt is the time of all files.
func packedAt() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

func tarred(files []file) ([]byte, error) {
	var b bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(compressed)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Typeflag: tar.TypeReg, Size: int64(len(f.content)), Mode: int64(f.mode), ModTime: packedAt(), Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	for _, end := range []io.Closer{w, compressed} {
		if err := end.Close(); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

func zipped(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: packedAt()}
		header.SetMode(f.mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
