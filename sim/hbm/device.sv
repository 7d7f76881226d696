// One pseudo-channel of an HBM device, as far as a controller can see it: banks, rows and data, but no
// timing rules. It does what the commands say; whether they may be given is the checker's business.
//
// The backdoor does one action whenever `backdoor_turn` changes, in no simulated time.
module hbm_device
  import hbm_package::*;
#(
  parameter int ROWS = 1024,
  parameter int ROW_BITS = 14
) (
  input  logic                 clk,
  input  logic                 rst,
  input  logic [7:0]           channel,
  input  timing_t              timing,

  input  logic [2:0]           row_command,
  input  logic [3:0]           row_bank,
  input  logic [ROW_BITS-1:0]  row_row,
  input  logic [1:0]           column_command,
  input  logic [3:0]           column_bank,
  input  logic [4:0]           column_column,
  input  logic [127:0]         write_data,
  input  logic [15:0]          write_enable,
  input  logic [15:0]          write_check,
  output logic                 read_valid,
  output logic [127:0]         read_data,
  output logic [15:0]          read_check,

  input  logic                 backdoor_turn,
  input  action_t              backdoor_action,
  input  logic [7:0]           backdoor_channel,
  input  logic [31:0]          backdoor_first,
  input  logic [31:0]          backdoor_last,
  input  logic [143:0]         backdoor_beat,
  output logic [143:0]         backdoor_value
);
  localparam int BANKS = 16;
  localparam int BEATS = ROWS * BANKS * COLUMNS * 2;
  localparam int NOWHERE = BEATS;

  // A beat is {check, data}; it lies at {row, bank, column, half}.
  logic [143:0] memory[BEATS];

  bit [BANKS-1:0] open;
  int unsigned    open_row[BANKS];

  // What the data bus does in the coming cycles, by cycle modulo 64.
  bit [5:0]    now;
  bit [63:0]   reading, writing;
  int unsigned read_place[64], write_place[64];

  initial for (int i = 0; i < BEATS; i++) memory[i] = UNWRITTEN_BEAT;

  function automatic int unsigned place();
    if (!open[column_bank]) return NOWHERE;
    return ((open_row[column_bank] * BANKS + 32'(column_bank)) * COLUMNS + 32'(column_column)) * 2;
  endfunction

  function automatic void store(int unsigned beat);
    if (beat >= BEATS) return;
    if (&write_enable) memory[beat] = {write_check, write_data};
    else
      for (int i = 0; i < 16; i++)
        if (write_enable[i]) begin
          memory[beat][8*i+:8] = write_data[8*i+:8];
          memory[beat][128+8*(i/8)+:8] = write_check[8*(i/8)+:8];
        end
  endfunction

  always @(posedge clk) begin
    bit [5:0] next, previous, slot;
    next = now + 1;
    previous = now - 1;

    // Column before row: a RD in the cycle of a PRE still meets the open row.
    if (column_command == COLUMN_RD) begin
      slot = now + timing.cl[5:0];
      reading[slot] = 1;
      read_place[slot] = place();
    end
    if (column_command == COLUMN_WR) begin
      slot = now + timing.wl[5:0];
      writing[slot] = 1;
      write_place[slot] = place();
    end
    case (row_command)
      ROW_ACT: begin
        open[row_bank] = 1;
        open_row[row_bank] = 32'(row_row);
      end
      ROW_PRE: open[row_bank] = 0;
      ROW_PREA: open = 0;
      default: ;
    endcase

    if (writing[previous]) begin
      store(write_place[previous] + 1);
      writing[previous] = 0;
    end
    if (writing[now]) store(write_place[now]);

    if (reading[next]) begin
      read_valid <= 1;
      {read_check, read_data} <= read_place[next] < BEATS ? memory[read_place[next]] : POISON_BEAT;
    end else if (reading[now]) begin
      read_valid <= 1;
      {read_check, read_data} <= read_place[now] < BEATS ? memory[read_place[now]+1] : POISON_BEAT;
    end else if (read_valid) begin
      read_valid <= 0;
      {read_check, read_data} <= POISON_BEAT;
    end
    reading[now] = 0;
    now = next;

    if (rst) begin
      open = 0;
      reading = 0;
      writing = 0;
      read_valid <= 0;
      {read_check, read_data} <= POISON_BEAT;
    end
  end

  always @(backdoor_turn)
    if (backdoor_channel == channel)
      case (backdoor_action)
        ACTION_LOAD: $readmemh($sformatf("hbm%0d.hex", channel), memory);
        ACTION_DUMP:
          $writememh($sformatf("hbm%0d.hex", channel), memory, backdoor_first, backdoor_last);
        ACTION_FLIP: memory[backdoor_first] = memory[backdoor_first] ^ backdoor_beat;
        ACTION_PEEK: backdoor_value = memory[backdoor_first];
        ACTION_CLEAR: for (int i = 0; i < BEATS; i++) memory[i] = UNWRITTEN_BEAT;
        default: ;
      endcase
endmodule
