import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { numbers, type ZipEntry, zipFile } from '../../../test/support/zip-file.ts';
import { CommandError } from '../exit-code.ts';
import { BundleArchive } from './mcpb-archive.ts';

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), 'trunkline-bundle-'));
});
after(() => rmSync(folder, { recursive: true, force: true }));

/** Extracts a file as a bundle into an empty folder; returns the files that are there afterwards. */
async function taken(bytes: Buffer): Promise<readonly string[]> {
  const own = mkdtempSync(join(folder, 'own-'));
  const file = join(own, 'x.mcpb');
  writeFileSync(file, bytes);
  const inside = join(own, 'a/b/c');
  mkdirSync(inside, { recursive: true });
  const all = () => readdirSync(own, { recursive: true }).map(String).sort();
  const outside = () => all().filter((path) => !path.startsWith('a/b/c/'));
  const first = outside();
  try {
    const archive = await BundleArchive.open(file, null);
    try {
      await archive.extract(inside, '');
    } finally {
      await archive.close();
    }
  } finally {
    assert.deepEqual(outside(), first, 'something was written outside');
  }
  return readdirSync(inside, { recursive: true }).map(String).sort();
}

const A: ZipEntry = { name: 'manifest.json', data: '{}' };
const LINK = 0o120777;
/** The name that Info-ZIP's extra field 0x7075 gives to the entry `name`. */
const renamed = (name: string, other: string): Buffer => {
  const data = Buffer.concat([numbers([1, 1], [4, crc32(name)]), Buffer.from(other)]);
  return Buffer.concat([numbers([2, 0x7075], [2, data.length]), data]);
};
const zeros = Buffer.alloc(17 * 1024 * 1024);
/** An offset that only a zip64 field can hold, beyond the end of any file. */
const far = Buffer.concat([numbers([2, 1], [2, 8]), Buffer.alloc(8, 0xee)]);

const HOSTILE: Readonly<Record<string, readonly [Buffer, RegExp]>> = {
  'a step up': [zipFile([A, { name: '../x' }]), /invalid relative path: \.\.\/x/],
  'a step up within': [zipFile([A, { name: 'd/../../x' }]), /invalid relative path/],
  'an absolute path': [zipFile([A, { name: '/tmp/x' }]), /absolute path: \/tmp\/x/],
  'a drive': [zipFile([A, { name: 'C:x' }]), /absolute path: C:x/],
  'a stream of another file': [zipFile([A, { name: 'file:y' }]), /a colon in its name/],
  backslashes: [zipFile([A, { name: '..\\..\\x' }]), /invalid characters in fileName/],
  'a step that stays': [zipFile([A, { name: './x' }]), /is no plain path/],
  'an empty step': [zipFile([A, { name: 'd//x' }]), /is no plain path/],
  'an empty name': [zipFile([A, { name: '' }]), /is no plain path/],
  'a NUL': [zipFile([A, { name: 'x\0.js' }]), /a control character/],
  'an escape for the terminal': [zipFile([A, { name: 'x\x1b[2J' }]), /"x\\u001b\[2J" has a control character/],
  'a long name': [zipFile([A, { name: 'x/'.repeat(400) }]), /more than 512 characters/],
  'another name in an extra field': [
    zipFile([A, { name: 'ok', extra: renamed('ok', '../x') }]),
    /invalid relative path/,
  ],
  'a symbolic link': [zipFile([A, { name: 'x', data: '/etc', mode: LINK }]), /"x" is a link or a special file/],
  'a link as folder': [zipFile([A, { name: 'x/', mode: LINK }, { name: 'x/y' }]), /a link or a special file/],
  'a pipe': [zipFile([A, { name: 'x', mode: 0o010644 }]), /a link or a special file/],
  'a device': [zipFile([A, { name: 'x', mode: 0o020666 }]), /a link or a special file/],
  'a file twice': [zipFile([A, { ...A, data: 'other' }]), /"manifest.json" is there twice/],
  'a file in another case': [zipFile([A, { name: 'Manifest.JSON' }]), /are one on some systems/],
  'a folder in another case': [zipFile([A, { name: 'lib/x' }, { name: 'LIB/y' }]), /are one on some systems/],
  'two forms of an accent': [zipFile([A, { name: 'caf\u00e9' }, { name: 'cafe\u0301' }]), /are one on some systems/],
  'dots at the end': [zipFile([A, { name: 'manifest.json.' }]), /are one on some systems/],
  'a file that is a folder': [zipFile([A, { name: 'x' }, { name: 'x/y' }]), /"x\/y" is there twice/],
  encrypted: [zipFile([A, { name: 'x', flags: 0x801 }]), /"x" is encrypted/],
  'strongly encrypted': [zipFile([A, { name: 'x', flags: 0x841 }]), /strong encryption/],
  'another method': [zipFile([A, { name: 'x', method: 12 }]), /packed by method 12/],
  'more entries than allowed': [zipFile([A], 60_000), /more than 50000 files and folders/],
  'more folders than allowed': [
    zipFile(Array.from({ length: 400 }, (_, index) => ({ name: `${index}/${'d/'.repeat(200)}` }))),
    /more than 50000 files and folders/,
  ],
  'a size beyond all': [zipFile([A, { name: 'x', size: 0xfffffffe }]), /unpacks to more than 2048 MiB/],
  'a bomb': [zipFile([A, { name: 'x', data: zeros }]), /unpacks to more than 200 times its size/],
  'a bomb of one part, many times': [
    zipFile([
      { name: 'x', data: zeros.subarray(0, 999_999) },
      ...Array.from({ length: 40 }, (_, index) => ({ name: `x${index}`, size: 999_999, overlaps: true })),
    ]),
    /unpacks to more than 200 times its size/,
  ],
  'more than it says': [zipFile([A, { name: 'x', data: zeros, size: 10 }]), /too many bytes in the stream/],
  'less than it says': [zipFile([A, { name: 'x', data: 'x', size: 1000 }]), /not enough bytes in the stream/],
  'a wrong checksum': [zipFile([A, { name: 'x', data: 'x', crc: 1 }]), /"x" is damaged/],
  'a place behind the end': [zipFile([A, { name: 'x', at: 0xffffffff, extra: far }]), /out of range/],
  'cut off': [zipFile([A]).subarray(0, -30), /End of central directory record signature not found/],
  'no zip': [Buffer.from('<!DOCTYPE html>'), /End of central directory record signature not found/],
  empty: [Buffer.alloc(0), /End of central directory/],
};

for (const [what, [bytes, answer]] of Object.entries(HOSTILE)) {
  test(`a bundle with ${what} is refused, and nothing is written outside`, async () => {
    await assert.rejects(taken(bytes), (error: Error) => {
      assert.ok(error instanceof CommandError, String(error.stack));
      assert.match(error.message, /^the bundle is not taken: /);
      assert.match(error.message, answer);
      return true;
    });
  });
}

test('a good bundle is written; of the attributes of a file only its executable bit is kept', async () => {
  const path = join(folder, 'good.mcpb');
  const files = [
    { name: 'bin/', mode: 0o040777 },
    { name: 'bin/run', data: '#!', mode: 0o104755 },
    { name: 'bin/read', data: 'x', mode: 0o100666 },
    { name: 'bin/named', data: 'x' },
    { name: 'stored', data: 'text', method: 0, localName: '../../other' },
  ];
  writeFileSync(path, zipFile([A, ...files]));
  const archive = await BundleArchive.open(path, null);
  const target = join(folder, 'good');
  await archive.extract(target, 'bin/named');
  await archive.close();
  const modes = ['bin/run', 'bin/read', 'bin/named'].map((name) => statSync(join(target, name)).mode & 0o7777);
  assert.deepEqual(modes, [0o700, 0o600, 0o700]);
  assert.equal(readFileSync(join(target, 'stored'), 'utf8'), 'text');
  const signed = Buffer.concat([readFileSync(path), Buffer.from('MCPB_SIG_V1\x03\0\0\0abcMCPB_SIG_END')]);
  assert.deepEqual(await taken(signed), ['bin', 'bin/named', 'bin/read', 'bin/run', 'manifest.json', 'stored']);
});

test('a bundle with changed bytes is accepted or refused with the reason, and nothing else happens', async () => {
  const whole = zipFile([A, { name: 'd/x.js', data: 'x'.repeat(500) }, { name: 'y', data: 'text', method: 0 }]);
  const change = fc.tuple(fc.nat(whole.length - 1), fc.integer({ min: 0, max: 255 }));
  await fc.assert(
    fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 8 }), async (changes) => {
      const bytes = Buffer.from(whole);
      for (const [at, value] of changes) bytes[at] = value;
      await taken(bytes).catch((error: Error) => assert.ok(error instanceof CommandError, String(error.stack)));
    }),
    { numRuns: 300 },
  );
});
