import { readFileSync, unwatchFile, watchFile } from 'node:fs';
import { createSecureContext } from 'node:tls';

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** Clients need a certificate of these authorities. */
  readonly clientCaFile?: string | null;
}

export interface CertificateOptions {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
}

/** Reads the files and sees that they belong together; throws where they do not. */
export function readCertificate(files: CertificateFiles): CertificateOptions {
  const { certFile, keyFile, clientCaFile = null } = files;
  const ca = clientCaFile === null ? {} : { ca: readFileSync(clientCaFile) };
  const options = { cert: readFileSync(certFile), key: readFileSync(keyFile), ...ca };
  createSecureContext(options);
  return options;
}

/**
 * Calls `changed` with the new pair whenever the files change into one that fits together; `failed` where they do
 * not, as in the moment between the writing of one and the other. Looks by polling, which follows links and mounts.
 */
export function watchCertificate(
  files: CertificateFiles,
  changed: (options: CertificateOptions) => void,
  failed: (error: Error) => void,
  intervalMs = 1_000,
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
  for (const path of paths) watchFile(path, { interval: intervalMs, persistent: false }, look);
  return () => {
    for (const path of paths) unwatchFile(path, look);
  };
}
