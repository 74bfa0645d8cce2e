import { parseServerCommandLine, type ServerCommandLine } from '../../../../src/model/server-command-line.ts';
import { shellWord } from '../../parts/command.tsx';

/** The command that adds what the gateway reads in a line. `given`: the name that was filled in, or empty. */
export function addCommand(line: string, given: string): string {
  const read = parseServerCommandLine(line);
  const { name, words, ...options } = 'complaint' in read ? NOTHING : read;
  const named = given === '' ? (name?.text ?? '') : given;
  const flags = [
    ...(options.type === null ? [] : ['-t', options.type.text]),
    ...(options.description === null ? [] : ['--description', options.description.text]),
    ...options.env.flatMap(({ text }) => ['-e', text]),
    ...options.headers.flatMap(({ text }) => ['-H', text]),
  ];
  const isUrl = words.length > 0 && /^[a-z][a-z0-9+.-]*:\/\//i.test(words[0]!.text);
  const target = words.length === 0 ? '<command>' : words.map(({ text }) => shellWord(text)).join(' ');
  const shown = [...flags, ...(named === '' ? [] : [named])].map(shellWord);
  return ['trunkline add', ...shown, ...(isUrl ? [] : ['--']), target].join(' ');
}

const NOTHING: ServerCommandLine = { name: null, type: null, description: null, env: [], headers: [], words: [] };
