import { isReadFailure, readPem } from '../config/document/read-source.ts';
import { type CertificateFiles, readCertificate } from '../http/listener/certificate.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { messageOf } from '../model/thrown.ts';

/** Why a listener cannot use its certificate files, with the remedy; null if it can. Only for a start, not for a renewal. */
export function certificateProblem({ listen, control }: Pick<DesiredState, 'listen' | 'control'>): string | null {
  return problemIn('tls', listen.tls) ?? problemIn('control.tls', control.tls);
}

function problemIn(key: string, files: CertificateFiles | null): string | null {
  if (files === null) return null;
  const { certFile, keyFile, clientCaFile = null } = files;
  for (const [name, file] of Object.entries({ cert: certFile, key: keyFile, clientCa: clientCaFile })) {
    const bytes = file === null ? null : readPem(file);
    if (bytes !== null && isReadFailure(bytes))
      return `${key}.${name}: ${file}: ${bytes.message}; ${bytes.fix ?? 'correct the path, or put the file there'}`;
  }
  try {
    readCertificate(files);
    return null;
  } catch (error) {
    const what = `${certFile} and ${keyFile} are not a certificate and its key`;
    return `${key}: ${what}: ${messageOf(error)}; name two that belong together, the key without a passphrase`;
  }
}
