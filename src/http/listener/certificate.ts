import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { createSecureContext } from 'node:tls';

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** Clients need a certificate of one of these authorities. */
  readonly clientCaFile?: string | null;
}

export interface CertificateOptions {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
}

const POLL_MS = 1_000;

/** Reads the files and checks that certificate and key match; throws if they do not. */
export function readCertificate(files: CertificateFiles): CertificateOptions {
  const { certFile, keyFile, clientCaFile = null } = files;
  const ca = clientCaFile === null ? {} : { ca: readFileSync(clientCaFile) };
  const options = { cert: readFileSync(certFile), key: readFileSync(keyFile), ...ca };
  createSecureContext(options);
  return options;
}

/**
 * Calls `changed` with the new pair when the files have changed to a matching one; `failed` if they do not match, as
 * between the writes of the two files. Polls, because polling follows symbolic links and mounts.
 */
export function watchCertificate(
  files: CertificateFiles,
  changed: (options: CertificateOptions) => void,
  failed: (error: Error) => void,
): () => void {
  const look = (): void => {
    let options: CertificateOptions;
    try {
      options = readCertificate(files);
    } catch (error) {
      failed(error as Error);
      return;
    }
    changed(options);
  };
  const paths = [files.certFile, files.keyFile, files.clientCaFile ?? null].filter((path) => path !== null);
  for (const path of paths) watchFile(path, { interval: POLL_MS, persistent: false }, look);
  return () => {
    for (const path of paths) unwatchFile(path, look);
  };
}
