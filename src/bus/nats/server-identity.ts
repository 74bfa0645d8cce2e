import { isIP } from 'node:net';
import { checkServerIdentity, type PeerCertificate } from 'node:tls';

/**
 * Whose certificate a server of NATS may have. The client tells TLS no name for a server that is known by its address, and
 * the check then asks for `localhost`: for those, the certificate has to be of one of the addresses that were configured.
 */
export function natsIdentity(servers: readonly string[]): (host: string, cert: PeerCertificate) => Error | undefined {
  const addresses = servers
    .map((server) => new URL(server).hostname.replace(/^\[(.*)\]$/, '$1'))
    .filter((host) => isIP(host) !== 0);
  return (host, cert) => {
    const error = checkServerIdentity(host, cert);
    if (error === undefined || host !== 'localhost') return error;
    return addresses.some((address) => checkServerIdentity(address, cert) === undefined) ? undefined : error;
  };
}
