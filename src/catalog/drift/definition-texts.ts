import { decodeString } from '../../protocol/fields.ts';
import { skipString } from '../../protocol/skip.ts';

/** One string in a definition: a value, or the name of a member. */
export interface DefinitionText {
  readonly text: string;
  /** JSON Pointer of the value, or of the member that it names. */
  pointer(): string;
}

interface Level {
  readonly array: boolean;
  index: number;
  key: string;
  atKey: boolean;
}

/** Every string of a JSON text, in one pass and without recursion. */
export function* definitionTexts(bytes: Buffer): Generator<DefinitionText, void, undefined> {
  const levels: Level[] = [];
  const pointer = () => levels.map(({ array, index, key }) => `/${array ? index : escaped(key)}`).join('');
  for (let at = 0; at < bytes.length; at++) {
    const level = levels.at(-1);
    switch (bytes[at]) {
      case 0x7b:
        levels.push({ array: false, index: 0, key: '', atKey: true });
        break;
      case 0x5b:
        levels.push({ array: true, index: 0, key: '', atKey: false });
        break;
      case 0x7d:
      case 0x5d:
        levels.pop();
        break;
      case 0x2c:
        if (level === undefined) break;
        level.index++;
        level.atKey = !level.array;
        break;
      case 0x3a:
        if (level !== undefined) level.atKey = false;
        break;
      case 0x22: {
        const end = skipString(bytes, at, bytes.length);
        if (end < 0) return;
        // A string that is no JSON is looked at as it stands.
        const text = decodeString(bytes, at, end) ?? bytes.toString('utf8', at + 1, end - 1);
        if (level?.atKey === true) level.key = text;
        yield { text, pointer };
        at = end - 1;
      }
    }
  }
}

function escaped(key: string): string {
  return key.slice(0, 128).replaceAll('~', '~0').replaceAll('/', '~1');
}
