import { isAbsolute } from 'node:path';
import type { ServerInput } from '../../../schema/config-input.d.ts';
import type { DockerSpec, ImageSpec } from '../../model/server.ts';
import type { WithDefaults } from '../document/shape.ts';
import type { FieldReader } from './field-reader.ts';
import { readEnv } from './read-stdio.ts';

/** An image reference that the engine accepts and that cannot be read as an option or an API path. */
const REFERENCE = /^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,511}$/;
const CONTAINER = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,254}$/;
const VOLUME_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]*$/;
const VOLUME = /^([^:]+):(\/[^:]*)(?::((?:ro|rw|z|Z)(?:,(?:ro|rw|z|Z))*))?$/;
const UNITS: Readonly<Record<string, number>> = { '': 1, b: 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };

type Values = WithDefaults<NonNullable<ServerInput['docker']>>;

/** A server in a container (S2.8, S2.22); null after a problem. */
export function readDocker(fields: FieldReader, values: Values): DockerSpec | null {
  const inner = fields.inner('docker');
  if (inner === null) return null;
  const container = inner.optionalText('container');
  const image = inner.optionalText('image');
  const engine = inner.optionalText('engine');
  const env = readEnv(fields);
  if (container === null || image === null || engine === null || env === null) return null;
  if ((container === undefined) === (image === undefined)) {
    const what = container === undefined ? 'neither "container" nor "image"' : 'both "container" and "image"';
    return complain(inner, `names ${what}`);
  }
  if (container !== undefined) {
    warnUseless(fields, inner);
    if (!CONTAINER.test(container)) return complain(inner, `${JSON.stringify(container)} cannot be a container`);
    return { type: 'docker', target: { container }, env: {}, engine: engine ?? null };
  }
  const spec = readImage(fields, inner, image!, values);
  return spec === null ? null : { type: 'docker', target: { image: spec }, env, engine: engine ?? null };
}

function readImage(fields: FieldReader, inner: FieldReader, name: string, values: Values): ImageSpec | null {
  if (!REFERENCE.test(name)) return complain(inner, `${JSON.stringify(name)} cannot be an image`);
  const command = fields.has('args') ? fields.words('args') : [];
  const program = fields.first('command', 'cmd');
  const entrypoint = program === null ? undefined : fields.words(program.key, true);
  const cwd = fields.optionalText('cwd');
  const volumes = inner.has('volumes') ? inner.words('volumes') : [];
  if (command === null || entrypoint === null || cwd === null || volumes === null) return null;
  const mounts = volumes.map((volume) => mountOf(volume, fields));
  const bad = mounts.indexOf(null);
  if (bad >= 0) return complain(inner, `the volume ${JSON.stringify(volumes[bad])} is not source:/target[:ro]`);
  const memory = bytesOf(values.memory);
  if (memory === undefined) return complain(inner, 'the memory is not a number of bytes, such as 512m');
  return {
    name,
    command,
    entrypoint: entrypoint ?? null,
    cwd: cwd ?? null,
    user: values.user ?? null,
    network: values.network ?? null,
    volumes: mounts as string[],
    readOnly: values.readOnly ?? false,
    labels: values.labels ?? {},
    limits: { memoryBytes: memory, cpus: values.cpus ?? null, pids: values.pids ?? null },
  };
}

function mountOf(volume: string, fields: FieldReader): string | null {
  const [, source, target, options] = VOLUME.exec(volume) ?? [];
  if (source === undefined || target === undefined) return null;
  const from = VOLUME_NAME.test(source) ? source : fields.resolvePath(source);
  if (!VOLUME_NAME.test(from) && !isAbsolute(from)) return null;
  return [from, target, ...(options === undefined ? [] : [options])].join(':');
}

/** null for no limit, undefined for an invalid size. */
function bytesOf(memory: Values['memory'] | undefined): number | null | undefined {
  if (typeof memory !== 'string') return memory ?? null;
  const [, digits, unit = ''] = /^(\d{1,12})([bkmg]?)$/i.exec(memory) ?? [];
  return digits === undefined ? undefined : Number(digits) * UNITS[unit.toLowerCase()]!;
}

/** Keys that an existing container makes ineffective. */
function warnUseless(fields: FieldReader, inner: FieldReader): void {
  const where = 'on a container that runs already';
  fields.warnUseless(['command', 'args', 'env', 'envFile', 'cwd'], where);
  inner.warnUseless(['network', 'volumes', 'memory', 'cpus', 'pids', 'user', 'readOnly', 'labels'], where);
}

function complain(inner: FieldReader, what: string): null {
  inner.error('TL1413', inner.node, `${inner.path} ${what}`);
  return null;
}
