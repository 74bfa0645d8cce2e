import { Option } from 'commander';
import type { CommandParts } from '../command-input.ts';
import { type GatewayFlags, lines } from '../flags.ts';
import type { RecordFlags } from './record.ts';
import type { ReplayFlags } from './replay.ts';

/** `trunkline record` with its subcommands, and `trunkline replay`. */
export function addRecordingCommands({ command, input, done }: CommandParts): void {
  const record = command('record', 'record what passes between a client, the gateway and its servers; Ctrl-C ends it')
    .enablePositionalOptions()
    .addOption(new Option('--session <label>', 'an open session'))
    .addOption(new Option('--client <name>', 'the next session of a client with this name'))
    .addOption(new Option('--principal <id>', 'the next session of this caller, such as agent:ada'))
    .addOption(new Option('--server <name>', 'this server; with another option, only this one of the session'))
    .addOption(new Option('-o, --output <file>', 'write to this file (default: standard output)'))
    .addOption(new Option('--max-entries <number>', 'stop at so many messages').argParser(lines))
    .action(async (flags: GatewayFlags & RecordFlags) => {
      const commands = await import('./record.ts');
      done(await commands.record({ ...input(flags), record: flags }));
    });
  command('list', 'list the recordings that the gateway keeps', record).action(async (flags: GatewayFlags) => {
    const { recordings } = await import('./record.ts');
    done(await recordings(input(flags)));
  });
  for (const [change, text] of [
    ['stop', 'end a recording'],
    ['delete', 'remove a recording'],
  ] as const) {
    command(change, text, record)
      .argument('<id>', 'as list prints it')
      .action(async (id: string, flags: GatewayFlags) => {
        const { changeRecording } = await import('./record.ts');
        done(await changeRecording(input(flags), change, id));
      });
  }
  command('get', 'write a recording to a file, or to standard output', record)
    .addOption(new Option('-o, --output <file>', 'the file'))
    .argument('<id>', 'as list prints it')
    .action(async (id: string, flags: GatewayFlags & Pick<RecordFlags, 'output'>) => {
      const { getRecording } = await import('./record.ts');
      done(await getRecording(input(flags), id, flags.output));
    });
  command('replay', 'send a recording to a server again; exit code 1 if an answer is another one')
    .addOption(new Option('--server <name>', 'against this server of the configuration'))
    .addOption(new Option('--command <line>', 'against the server that this command starts').conflicts('server'))
    .addOption(new Option('--url <url>', 'against the server at this URL').conflicts(['server', 'command']))
    .addOption(new Option('--of <name>', 'the recorded server, if the recording is of several'))
    .addOption(
      new Option('--ignore <path>', "a place that may differ, such as '$.result.content[*].text'; again for more")
        .default([])
        .argParser((path: string, paths: string[]) => [...paths, path]),
    )
    .addOption(new Option('--test <file>', 'write a test for node --test in place of replaying'))
    .argument('<recording>', 'a file that record wrote')
    .action(async (recording: string, flags: GatewayFlags & ReplayFlags) => {
      const { replay } = await import('./replay.ts');
      done(await replay({ ...input(flags), recording, replay: flags }));
    });
}
