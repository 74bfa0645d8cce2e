import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';

/** Certificates for tests, made in memory: Node can sign, so only the DER around it is missing. */
export interface Certified {
  readonly cert: string;
  readonly key: string;
}

export interface CertificateRequest {
  readonly name: string;
  /** DNS names and IPv4 addresses. */
  readonly hosts?: readonly string[];
  readonly from?: Date;
  readonly to?: Date;
}

const DAY_MS = 86_400_000;

export class TestAuthority implements Certified {
  readonly cert: string;
  readonly key: string;
  readonly #key: KeyObject;
  readonly #name: string;

  constructor(name = 'Test Authority') {
    this.#name = name;
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    this.#key = pair.privateKey;
    this.key = pem(pair.privateKey);
    this.cert = certificate({ name }, name, pair.publicKey, pair.privateKey, true);
  }

  issue(request: CertificateRequest): Certified {
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    return { cert: certificate(request, this.#name, pair.publicKey, this.#key, false), key: pem(pair.privateKey) };
  }
}

function pem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }) as string;
}

function certificate(
  request: CertificateRequest,
  issuer: string,
  publicKey: KeyObject,
  signer: KeyObject,
  authority: boolean,
): string {
  const algorithm = sequence(oid('2a8648ce3d040302'));
  const extensions = [
    extension('551d13', sequence(...(authority ? [der(0x01, Buffer.from([0xff]))] : []))),
    ...(request.hosts === undefined ? [] : [extension('551d11', sequence(...request.hosts.map(generalName)))]),
  ];
  const from = request.from ?? new Date(Date.now() - DAY_MS);
  const to = request.to ?? new Date(Date.now() + 30 * DAY_MS);
  const body = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([0x01]), randomBytes(8)])),
    algorithm,
    distinguished(issuer),
    sequence(time(from), time(to)),
    distinguished(request.name),
    publicKey.export({ type: 'spki', format: 'der' }) as Buffer,
    der(0xa3, sequence(...extensions)),
  );
  const signature = der(0x03, Buffer.concat([Buffer.from([0]), sign('sha256', body, signer)]));
  const text = sequence(body, algorithm, signature).toString('base64');
  return `-----BEGIN CERTIFICATE-----\n${text.match(/.{1,64}/g)!.join('\n')}\n-----END CERTIFICATE-----\n`;
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  const size = length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, 'hex'));
}

function distinguished(name: string): Buffer {
  return sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(name)))));
}

function extension(id: string, content: Buffer): Buffer {
  return sequence(oid(id), der(0x04, content));
}

function generalName(host: string): Buffer {
  if (isIP(host) === 4) return der(0x87, Buffer.from(host.split('.').map(Number)));
  return der(0x82, Buffer.from(host));
}

function time(at: Date): Buffer {
  return der(0x18, Buffer.from(`${at.toISOString().replace(/[-:T]/g, '').slice(0, 14)}Z`));
}
