import { type Command, Option } from 'commander';
import type { CommandInput, CommandParts } from '../command-input.ts';
import type { GatewayFlags } from '../flags.ts';

interface StartFlags extends GatewayFlags {
  readonly background?: boolean;
}

/** `trunkline start`, `stop`, `console` and `gateways`. `start` has the options of the program; `inputOf` builds its input. */
export function addGatewayCommands(
  { command, input, done }: CommandParts,
  start: Command,
  inputOf: (file: string | undefined, flags: GatewayFlags) => CommandInput,
): void {
  start
    .description('start the gateway; with --background detached from the terminal')
    .addOption(new Option('-b, --background', 'return when it listens; stop, restart and logs find it'))
    .addOption(new Option('--in-background').hideHelp())
    .argument('[file]', 'configuration file (default: the nearest one)')
    .action(async (file: string | undefined, flags: StartFlags) => {
      const given = inputOf(file, flags);
      if (flags.background === true) {
        const { startInBackground } = await import('./background.ts');
        done(await startInBackground(given));
      } else {
        const { serve } = await import('../serve.ts');
        done(await serve(given));
      }
    });
  command('stop', 'stop the gateway: it finishes its calls first')
    .addOption(new Option('--now', 'do not wait for calls'))
    .action(async (flags: GatewayFlags & { readonly now?: boolean }) => {
      const { stop } = await import('./background.ts');
      done(await stop({ ...input(flags), now: flags.now === true }));
    });
  command('console', 'print a link to the web console; it logs one browser in, within ten minutes')
    .addOption(new Option('--open', 'open it in the browser'))
    .action(async (flags: GatewayFlags & { readonly open?: boolean }) => {
      const { consoleLink } = await import('./console.ts');
      done(await consoleLink({ ...input(flags), open: flags.open === true }));
    });
  command('gateways', 'list the gateways of this user that run; * marks the one of this folder').action(
    async (flags: GatewayFlags) => {
      const { gateways } = await import('./background.ts');
      done(await gateways(input(flags)));
    },
  );
}
